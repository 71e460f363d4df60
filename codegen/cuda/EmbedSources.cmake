# cmake -DOUTPUT=FILE -DFILES=a;b -P EmbedSources.cmake: a C++ file with the text of each source.
set(text "// Generated: the CUDA C++ of codegen/cuda/device and codegen/cuda/library.\n#include \"codegen/cuda/Sources.h\"\n\nnamespace sluice::cuda {\n\nconst std::vector<SourceFile> &librarySources() {\n  static const auto *files = new std::vector<SourceFile>{\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text "{\"${name}\", R\"SLUICE(${content})SLUICE\"},\n")
endforeach()
string(APPEND text "};\n  return *files;\n}\n\n} // namespace sluice::cuda\n")
file(WRITE ${OUTPUT} "${text}")
