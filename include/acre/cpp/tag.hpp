/* Tags as scopes. Part of acre.hpp. */
#ifndef ACRE_CPP_TAG_HPP
#define ACRE_CPP_TAG_HPP

#include "../tag.h"
#include "callable.hpp"

namespace acre {
inline namespace ACRE__CPP_MODE {

/* Tags everything that the calling thread allocates from any pool, until the object is destroyed:
 *
 *   acre::tag_scope tag("forward");
 *
 * Scopes nest, and end in the thread that began them, the last one first (acre_tag_push). */
class [[nodiscard]] tag_scope {
  public:
    [[nodiscard]] explicit tag_scope(const char *name) : tag_scope(try_push(name).value()) {
    }
    static result<tag_scope> try_push(const char *name) noexcept {
        acre_status status = acre_tag_push(name);
        if (status != ACRE_OK)
            return status;
        return tag_scope();
    }
    tag_scope(tag_scope &&other) noexcept : is_set_(std::exchange(other.is_set_, false)) {
    }
    tag_scope &operator=(tag_scope &&) = delete;
    ~tag_scope() {
        if (is_set_)
            acre_tag_pop();
    }

  private:
    tag_scope() noexcept = default;
    bool is_set_ = true;
};

/* Limits the live bytes of a tag and those below it, in all pools together; 0: no limit. */
inline result<void> try_set_tag_limit(const char *path, uint64_t bytes) noexcept {
    return acre_tag_set_limit(path, bytes);
}
inline void set_tag_limit(const char *path, uint64_t bytes) {
    acre::check(acre_tag_set_limit(path, bytes));
}

/* Calls fn(const acre_tag_info &) for every tag that was ever set, parents before their children.
 * The function returns nothing, or a bool: false ends the walk. It may call into acre. */
template <class F> result<void> try_walk_tags(F &&fn) {
    auto with_reference = [&fn](const acre_tag_info *info) { return fn(*info); };
    return detail::walk<const acre_tag_info *>(
        with_reference, [](auto call, void *user) { return acre_tag_walk(call, user); });
}
template <class F> void walk_tags(F &&fn) {
    acre::check(try_walk_tags(fn).status());
}

} // namespace ACRE__CPP_MODE
} // namespace acre

#endif
