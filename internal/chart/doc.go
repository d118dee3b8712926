// Package chart draws charts as SVG: scales with round marks, lines and areas with gaps, and whole drawings of lines over
// time: one panel, or several side by side with one scale, or below each other with a scale each.
package chart
