//go:build race

package frontend

// raceEnabled reports the race detector, under which pools randomly drop values.
const raceEnabled = true
