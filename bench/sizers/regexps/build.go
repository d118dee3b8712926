package regexps

import "regexp"

// Compile returns a compiled pattern without a cache.
func Compile(text string) (*Pattern, error) {
	re, err := regexp.Compile(text)
	return &Pattern{re}, err
}
