// Package drawing draws the imports between the rooms of ARCHITECTURE.md: each above those that it imports, with arrows that point down.
package drawing
