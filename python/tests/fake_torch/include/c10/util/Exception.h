/* What torch_throw.cpp uses of PyTorch's header of this name, for the fake torch of the tests. */
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace c10 {

struct SourceLocation {
    const char *function;
    const char *file;
    std::uint32_t line;
};

class __attribute__((visibility("default"))) Error : public std::exception {
  public:
    Error(SourceLocation where, std::string text);
    ~Error() override;
    const char *what() const noexcept override;

  private:
    std::string text;
};

class __attribute__((visibility("default"))) OutOfMemoryError : public Error {
    using Error::Error;
};

} // namespace c10
