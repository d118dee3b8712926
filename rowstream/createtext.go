package rowstream

import (
	"strconv"
	"strings"
)

// CreateLines splits the text of SHOW CREATE TABLE into its lines, without their line ends. A newline within a quoted name or
// text does not end a line.
func CreateLines(create string) []string {
	var lines []string
	start, quote := 0, byte(0)
	for i := 0; i < len(create); i++ {
		switch b := create[i]; {
		case quote != 0 && b == '\\' && quote == '\'':
			i++ // servers escape within texts, and not within names
		case quote != 0:
			if b == quote {
				quote = 0 // a doubled quote opens again at once
			}
		case b == '`' || b == '\'':
			quote = b
		case b == '\n':
			lines, start = append(lines, create[start:i]), i+1
		}
	}
	return append(lines, create[start:])
}

// AutoIncrement returns the next AUTO_INCREMENT value that the text of SHOW CREATE TABLE states, 0 if it states none: the
// table has no such column, or no value was taken.
func AutoIncrement(create string) uint64 {
	for _, line := range CreateLines(create) {
		if !strings.HasPrefix(line, ") ") {
			continue
		}
		for _, option := range strings.Fields(line) { // names and texts come after it
			if value, ok := strings.CutPrefix(option, "AUTO_INCREMENT="); ok {
				n, _ := strconv.ParseUint(value, 10, 64)
				return n
			}
			if strings.HasPrefix(option, "COMMENT=") {
				break
			}
		}
		return 0
	}
	return 0
}
