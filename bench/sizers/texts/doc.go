// Package texts provides the texts from which the subjects are parsed and decoded.
package texts
