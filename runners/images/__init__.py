"""Images: found, read, built, proven, pulled and pushed. One module for each verb."""
