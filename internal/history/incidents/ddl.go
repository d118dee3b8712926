package incidents

import "strings"

// A ddlIndex is an index that a schema change names.
type ddlIndex struct {
	name  string // in lower case
	gone  bool   // the optimizer can no longer use it by this name
	fresh bool   // the optimizer can use it since
}

// indexesOf returns the indexes that the normalized text of a schema change names.
func indexesOf(text string) []ddlIndex {
	words := ddlWords(text)
	word := func(i int) string {
		if i >= 0 && i < len(words) {
			return words[i]
		}
		return ""
	}
	// after skips IF [NOT] EXISTS.
	after := func(i int) int {
		if word(i) == "if" {
			if i++; word(i) == "not" {
				i++
			}
			i++
		}
		return i
	}
	isIndex := func(w string) bool { return w == "index" || w == "key" }
	var all []ddlIndex
	for i, w := range words {
		if w == "primary" && isIndex(word(i+1)) {
			switch word(i - 1) {
			case "drop":
				all = append(all, ddlIndex{name: "primary", gone: true})
			case "add":
				all = append(all, ddlIndex{name: "primary", fresh: true})
			}
			continue
		}
		if !isIndex(w) || word(i-1) == "primary" || word(i-1) == "foreign" {
			continue
		}
		name := word(after(i + 1))
		switch before := word(i - 1); before {
		case "drop":
			all = append(all, ddlIndex{name: name, gone: true})
		case "rename":
			all = append(all, ddlIndex{name: name, gone: true}, ddlIndex{name: word(after(i+1) + 2), fresh: true})
		case "alter":
			state := word(after(i+1) + 1)
			gone := state == "invisible" || state == "ignored"
			all = append(all, ddlIndex{name: name, gone: gone, fresh: !gone})
		case "add", "create", "unique", "fulltext", "spatial", "replace":
			if name != "(" && name != "" {
				all = append(all, ddlIndex{name: name, fresh: true})
			}
		}
	}
	return all
}

// ddlWords splits a text into words in lower case, quoted names without quotes, and other characters. The contents of
// quotes are no keywords, but a name that equals one is read as one: the result is evidence, and is compared with plans.
func ddlWords(text string) []string {
	var words []string
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case c == '`' || c == '"' || c == '\'':
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				return words
			}
			words = append(words, strings.ToLower(text[i+1:i+1+end]))
			i += end + 2
		case isWordByte(c):
			end := i
			for end < len(text) && isWordByte(text[end]) {
				end++
			}
			words = append(words, strings.ToLower(text[i:end]))
			i = end
		default:
			words = append(words, text[i:i+1])
			i++
		}
	}
	return words
}

func isWordByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}
