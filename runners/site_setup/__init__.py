"""What a site's administrator gives all users: a module file, completion, a guide, the profile."""
