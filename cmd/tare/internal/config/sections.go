package config

// A Command is the options of a subcommand.
type Command interface {
	// Set returns the section.
	Set() *Set

	// Load sets every option and validates them together.
	Load(in Input) (warnings []string, err error)

	// Ready returns an error that names missing options. A file for another subcommand may lack them.
	Ready() error
}

// Commands returns the options of every subcommand, with their defaults, in the order of the documentation.
func Commands() []Command {
	return []Command{NewServe(), NewStore(), NewFrontend(), NewRowstream(), NewCopy(), NewAlter()}
}

// Sections returns the sections of a file.
func Sections() []*Set {
	var sets []*Set
	for _, c := range Commands() {
		sets = append(sets, c.Set())
	}
	return sets
}
