// Package gen generates the walks of sizegen: it loads packages, finds the roots, and returns the files that
// belong beside the types, or the problems that prevent generating them.
//
// The API is Generate, Explain and Measure. Internally, a generator has the state of all packages
// (directives, problems, implementations of interfaces), an output the file being generated for one package,
// and an emitter generates the body of one function. The outputs request methods from each other: a type's
// unexported fields are walked from its package.
//
// Two graphs are complete only after all functions are generated. In the graph of calls, a call that may lead
// back to its caller becomes one of heapsize.Follow. In the graph of types, problems that one field leads to
// are merged into one at that field.
//
// Terms, directives and refusals are those of the command's documentation. The package writes no files and
// runs nothing but go list.
package gen
