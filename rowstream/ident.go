package rowstream

import "strings"

// Ident is a name as SQL wants it.
func Ident(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Idents joins names by commas.
func Idents(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = Ident(n)
	}
	return strings.Join(quoted, ", ")
}
