//go:build !race

package sqlplan

const raceEnabled = false
