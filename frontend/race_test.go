//go:build race

package frontend

// raceEnabled: the race detector has pools lose what they are given now and then.
const raceEnabled = true
