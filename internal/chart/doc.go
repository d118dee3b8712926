// Package chart draws lines over time as SVG: one panel, or several side by side with one scale, or
// below each other with a scale each.
package chart
