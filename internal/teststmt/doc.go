// Package teststmt makes records of statements for tests.
package teststmt
