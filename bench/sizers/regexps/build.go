package regexps

import "regexp"

// Compile returns a pattern, of which nothing is cached.
func Compile(text string) (*Pattern, error) {
	re, err := regexp.Compile(text)
	return &Pattern{re}, err
}
