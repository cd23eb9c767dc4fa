"""The headers of each answer of the dashboard: a page may load nothing from elsewhere, run no inline script, stand in no frame.

Plain data, read in the event loop that serves. Nothing in a page needs an exception: there is one style sheet and one script of
ours, drawings are SVG in the page, and no element has a `style` attribute.

`Referrer-Policy` is `same-origin` rather than `no-referrer`, with which browsers send `Origin: null` with our own forms.
"""

CONTENT = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'none'; "
    "object-src 'none'; media-src 'none'; worker-src 'none'; frame-src 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'"
)

HEADERS = {
    "content-security-policy": CONTENT,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-robots-tag": "noindex, nofollow",
}
"""The headers of every answer."""

UNSTORED = {"cache-control": "no-store", "vary": "accept, cookie"}
"""The headers of pages: args and errors stay in no cache."""

STORED = {"cache-control": "private, max-age=31536000, immutable"}
"""The headers of the script and the style sheet, whose addresses have a digest of their text."""
