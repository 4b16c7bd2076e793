"""Programs of ours inside an image: its proof (`selftest`) and its labels (`labels`)."""
