"""Link: mentions in context to ranked entities, with the evidence for each."""
