// Package accept parses Accept and Accept-Encoding (RFC 9110, sections 12.4.2 and 12.5).
package accept
