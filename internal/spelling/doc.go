// Package spelling suggests the intended name for an unknown one.
package spelling
