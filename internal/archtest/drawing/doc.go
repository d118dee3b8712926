// Package drawing draws the imports between the packages of ARCHITECTURE.md's table: floors above each other,
// with arrows that point down.
package drawing
