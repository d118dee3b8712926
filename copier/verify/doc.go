// Package verify compares the rows of a copy on both sides: once, in the view that they were copied from, or again and again while
// the target follows its source.
//
// Servers sum up the rows of a chunk, so that rows do not travel. Where the sums differ, the chunk's rows are summed up one by one, and
// those that differ are named by their keys.
package verify
