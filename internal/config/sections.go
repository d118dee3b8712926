package config

// A Command is what a subcommand's options can do.
type Command interface {
	// Set returns the section.
	Set() *Set

	// Load gives every option its value and validates them together.
	Load(in Input) (warnings []string, err error)

	// Ready reports options that are missing to start. A file for another subcommand need not have them.
	Ready() error
}

// Commands returns the options of every subcommand, with their defaults, in the order of
// the documentation.
func Commands() []Command {
	return []Command{NewServe(), NewStore(), NewFrontend(), NewRowstream(), NewCopy(), NewAlter()}
}

// Sections returns the sections that a file may hold.
func Sections() []*Set {
	var sets []*Set
	for _, c := range Commands() {
		sets = append(sets, c.Set())
	}
	return sets
}
