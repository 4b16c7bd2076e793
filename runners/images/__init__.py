"""Images: local_image finds one; inspect, verify, pull and push are the commands of these names."""
