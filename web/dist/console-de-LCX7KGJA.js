import{a as p,c as m,la as o}from"./chunk-XAWFQ5VJ.js";m(p(o,null),document.getElementById("app"));
