// Package teststmt creates records of statements for tests.
package teststmt
