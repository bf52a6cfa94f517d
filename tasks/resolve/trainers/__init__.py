"""Translates our configs into the commands of other trainers: MaxText and custom programs."""
