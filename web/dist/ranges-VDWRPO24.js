import{v as t,w as e}from"./chunk-4ZBABXCC.js";function n(){return e("h1",{children:t("ranges")})}export{n as default};
