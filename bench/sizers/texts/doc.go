// Package texts has the texts that the subjects are parsed and decoded from.
package texts
