"""HTTP as a platform: a small native API, and a front that speaks OpenAI's protocol (docs/http.md)."""
