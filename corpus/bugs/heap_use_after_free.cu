// Builds a linked list with new, adds its values up and deletes it.
//
// Bug: a node is read after it was deleted.
//
// warpsmith: --arch sm_80 --kernel lists --grid 1 --block 32
// warpsmith: --arg sums=out,i32[32]
struct Node {
    int value;
    Node* next;
};

extern "C" __global__ void lists(int* sums)
{
    Node* head = nullptr;
    for (int i = 0; i < 5; ++i) {
        Node* node = new Node;
        node->value = i * threadIdx.x;
        node->next = head;
        head = node;
    }
    int sum = 0;
    while (head != nullptr) {
        sum += head->value;
        delete head;
        head = head->next;  //~ out-of-bounds
    }
    sums[threadIdx.x] = sum;
}
