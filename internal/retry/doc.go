// Package retry repeats failed calls after pauses that grow and are random, so that many processes do not return at once.
package retry
