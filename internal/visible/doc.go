// Package visible shows characters of foreign texts that a reader would not see, or that would change
// the order of what is read: control characters, bidirectional overrides, zero-width characters.
package visible
