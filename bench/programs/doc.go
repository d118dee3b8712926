// Package programs finds, builds and starts the programs that the commands of this module measure.
package programs
