// Package gen writes the walks of sizegen: it reads packages, finds the roots, and returns
// the files that belong beside the types, or the problems that keep it from writing them.
//
// Generate is the whole of it. Inside, a generator holds what is true of all packages
// (directives, problems, implementations of interfaces), an output holds the file being
// written for one package, and an emitter writes the body of one function. The outputs ask
// each other for methods: a type's unexported fields are walked from its own package.
//
// Terms, directives and refusals are those of the command's documentation. The package writes
// no files and runs nothing but go list.
package gen
