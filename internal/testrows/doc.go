// Package testrows connects tests to the rows of a MySQL server and to the changes in its binary log, and
// turns both into values that a test compares. Each function fails the test on an error and closes what it
// opened when the test ends. Memory and MemoryLog are servers in memory.
package testrows
