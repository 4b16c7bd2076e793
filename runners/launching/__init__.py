"""From a request to a job in the queue: gather, plan, submit. For cli/ and the API."""
