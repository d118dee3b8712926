// Package escape writes text into HTML with the bytes that html/template writes. Programs that execute no template are smaller:
// templates call methods by name, so that the linker keeps every exported method.
package escape

import (
	"bytes"
	"strings"
)

// entities has what text and quoted attributes contain instead of these bytes.
var entities = [256]string{
	0: "\uFFFD", '"': "&#34;", '&': "&amp;", '\'': "&#39;", '+': "&#43;", '<': "&lt;", '>': "&gt;",
}

// HTML appends text for elements and quoted attributes.
func HTML(b *bytes.Buffer, text string) {
	written := 0
	for i := range len(text) {
		if entity := entities[text[i]]; entity != "" {
			b.WriteString(text[written:i])
			b.WriteString(entity)
			written = i + 1
		}
	}
	b.WriteString(text[written:])
}

// unsafeURL replaces URLs with a scheme that could run scripts, as html/template does it.
const unsafeURL = "#ZgotmplZ"

// URL appends a URL for a quoted attribute. Bytes that no URL has are percent-encoded.
func URL(b *bytes.Buffer, url string) {
	if !safe(url) {
		url = unsafeURL
	}
	const hex = "0123456789abcdef"
	written := 0
	for i := range len(url) {
		if kept(url[i]) || url[i] == '%' && i+2 < len(url) && isHex(url[i+1]) && isHex(url[i+2]) {
			continue
		}
		HTML(b, url[written:i])
		b.Write([]byte{'%', hex[url[i]>>4], hex[url[i]&15]})
		written = i + 1
	}
	HTML(b, url[written:])
}

// safe reports whether the URL is relative, or its scheme is http, https or mailto.
func safe(url string) bool {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok || strings.Contains(scheme, "/") {
		return true
	}
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "mailto")
}

// kept reports whether a byte is reserved or unreserved in RFC 3986, apart from the single quote and parentheses, which CSS would end at.
func kept(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("!#$&*+,/:;=?@[]-._~", c) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
