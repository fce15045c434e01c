"""`snm bench`: how far each part is from what the machine allows, and from what others offer."""
