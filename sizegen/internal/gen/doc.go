// Package gen writes the walks of sizegen: it reads packages, finds the roots, and returns
// the files that belong beside the types, or the problems that keep it from writing them.
//
// Generate, Explain and Measure are the whole of it. Inside, a generator holds what is true of all
// packages (directives, problems, implementations of interfaces), an output holds the file being
// written for one package, and an emitter writes the body of one function. The outputs request
// methods from each other: a type's unexported fields are walked from its own package.
//
// Two graphs are complete only when all functions are written. In that of calls, a call that may lead
// back to its caller becomes one of heapsize.Follow. In that of types, problems that one field leads
// to are merged into one at that field.
//
// Terms, directives and refusals are those of the command's documentation. The package writes
// no files and runs nothing but go list.
package gen
