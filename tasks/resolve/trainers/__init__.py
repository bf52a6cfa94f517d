"""Translates our configs into the commands of trainers that are not ours."""
