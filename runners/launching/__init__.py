"""From a request to a job and its end: gather, plan, submit, follow. For cli/ and the API."""
