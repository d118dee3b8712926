package dialect

import (
	"fmt"
	"regexp"
	"strings"
)

// The Unicode collations of MySQL ignore no trailing spaces, like those of MariaDB with nopad in their names. MySQL's are of Unicode 9,
// MariaDB's of Unicode 14: characters that are younger than Unicode 9 may sort differently.
const (
	mysqlUnicode   = "_0900_"
	mariadbUnicode = "_uca1400_"
)

// languages are the names of languages in MySQL's and in MariaDB's collations.
var languages = map[string]string{
	"de_pb": "german2", "is": "icelandic", "lv": "latvian", "ro": "romanian", "sl": "slovenian", "pl": "polish", "et": "estonian",
	"es": "spanish", "sv": "swedish", "tr": "turkish", "cs": "czech", "da": "danish", "lt": "lithuanian", "sk": "slovak",
	"es_trad": "spanish2", "la": "roman", "eo": "esperanto", "hu": "hungarian", "hr": "croatian", "vi": "vietnamese",
}

// mysqlCollation is one of MySQL's Unicode collations: a language, if any, and the sensitivities.
var mysqlCollation = regexp.MustCompile(`^utf8mb4_(?:([a-z_]+)_)?0900_(ai_ci|as_ci|as_cs)$`)

// mariadbCollation is one of MariaDB's that do not ignore trailing spaces.
var mariadbCollation = regexp.MustCompile(`^(?:utf8mb4_)?uca1400_(?:([a-z0-9]+)_)?nopad_(ai_ci|as_ci|as_cs)$`)

// Collation returns the counterpart of a collation, which may be the collation itself.
func (t *Translator) Collation(name string) (string, error) {
	if name == "" || t == nil {
		return name, nil
	}
	if chosen := t.Collations[name]; chosen != "" {
		if t.Known != nil && !t.Known[chosen] {
			return "", fmt.Errorf("the target has no collation %s, which was chosen for %s", chosen, name)
		}
		return chosen, nil
	}
	if t.Known == nil || t.Known[name] {
		return name, nil
	}
	other := ""
	if t.Across() {
		other = t.counterpart(name)
	}
	if other != "" && t.Known[other] {
		return other, nil
	}
	return "", fmt.Errorf("the target has no collation %s, and none that compares texts by the same rules: choose one, such as option map-collation %s=%s",
		name, name, t.suggestion(name))
}

// counterpart returns the collation of the other vendor with the same rules; empty: there is none.
func (t *Translator) counterpart(name string) string {
	if t.To == MariaDB {
		if name == "utf8mb4_0900_bin" {
			return "utf8mb4_nopad_bin"
		}
		m := mysqlCollation.FindStringSubmatch(name)
		switch {
		case m == nil:
			return ""
		case m[1] == "":
			return "utf8mb4_uca1400_nopad_" + m[2]
		case languages[m[1]] != "":
			return "utf8mb4_uca1400_" + languages[m[1]] + "_nopad_" + m[2]
		}
		return ""
	}
	if name == "utf8mb4_nopad_bin" {
		return "utf8mb4_0900_bin"
	}
	m := mariadbCollation.FindStringSubmatch(name)
	switch {
	case m == nil:
		return ""
	case m[1] == "":
		return "utf8mb4_0900_" + m[2]
	}
	for language, other := range languages {
		if other == m[1] {
			return "utf8mb4_" + language + "_0900_" + m[2]
		}
	}
	return ""
}

// suggestion returns a collation for an example that is near to one without a counterpart.
func (t *Translator) suggestion(name string) string {
	charset, _, _ := strings.Cut(name, "_")
	if t.To == MySQL && strings.Contains(name, mariadbUnicode[1:]) {
		return "utf8mb4_0900_" + name[max(0, len(name)-len("ai_ci")):]
	}
	if t.To == MariaDB && strings.Contains(name, mysqlUnicode) {
		return "utf8mb4_uca1400_nopad_" + name[max(0, len(name)-len("ai_ci")):]
	}
	return charset + "_bin"
}

// collationWord is a name that may be of a collation which only one vendor has.
var collationWord = regexp.MustCompile(`\b(?:[a-z0-9]+_)?(?:[a-z_]+_)?(?:0900|uca1400)_[a-z0-9_]+\b|\butf8mb4_nopad_bin\b`)

// replaceCollations replaces the collations in a text outside of quotes.
func (t *Translator) replaceCollations(text string, refused *reasons) string {
	replace := func(name string) string {
		other, err := t.Collation(name)
		if err != nil {
			refused.add("%v", err)
			return name
		}
		return other
	}
	text = collationWord.ReplaceAllStringFunc(text, replace)
	for from := range t.Collations {
		if !collationWord.MatchString(from) {
			text = regexp.MustCompile(`\b`+regexp.QuoteMeta(from)+`\b`).ReplaceAllStringFunc(text, replace)
		}
	}
	return text
}
