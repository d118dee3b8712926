// Package visible makes characters of foreign texts visible that a reader would not see, or that would change
// the reading order: control characters, bidirectional overrides, zero-width characters.
package visible
