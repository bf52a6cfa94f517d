"""HOW each step is done: resolve, launch, watch, scrape, verify, diff, publish."""
