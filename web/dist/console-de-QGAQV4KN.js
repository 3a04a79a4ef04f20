import{Ra as o,a as p,c as m}from"./chunk-2EOSCRMY.js";m(p(o,null),document.getElementById("app"));
