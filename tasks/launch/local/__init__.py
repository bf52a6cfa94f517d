"""The backend that runs trainers as supervised processes on this machine."""
