package sqlplan

import "strings"

// maxChar is the maximum number of bytes of a character in the character sets available to clients.
const maxChar = 4

// mayMatch is globMatch for a name with bytes past ASCII. Servers compare the names of functions, variables,
// system tables and, with lower_case_table_names, of all tables, by collations or case tables that equate
// characters past ASCII with letters: é with e, ı with i, ſ with s. The name is in the client's character
// set, so each of its characters past ASCII matches any one character.
func mayMatch(pattern, name string) bool {
	if len(name) > maxChar*len(pattern) && !strings.Contains(pattern, "*") {
		return false
	}
	at := make([]bool, len(name)+1) // offsets in the name at which the pattern so far may end
	next := make([]bool, len(name)+1)
	at[0] = true
	for p := range len(pattern) {
		clear(next)
		for i, here := range at {
			switch {
			case pattern[p] == '*':
				next[i] = here || i > 0 && next[i-1]
			case !here || i == len(name):
			case name[i] >= 0x80:
				for j := i + 1; j <= min(i+maxChar, len(name)); j++ {
					next[j] = true
				}
			case pattern[p] == '?' || pattern[p] == lowerByte(name[i]):
				next[i+1] = true
			}
		}
		at, next = next, at
	}
	return at[len(name)]
}
