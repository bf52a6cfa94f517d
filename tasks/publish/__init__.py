"""Turns one comparison record into what people read: a terminal report, Prefect artifacts and a static page."""
